// The service that Axis hosts: `float[][]` and `DataHandler`, as in the paper.

import javax.activation.DataHandler;

import org.apache.axis.AxisFault;
import org.apache.axis.MessageContext;
import org.apache.axis.attachments.Attachments;

public final class Service {
    public float[][] echo(float[][] matrix) {
        return matrix;
    }

    public float[][] getMatrix(int n) {
        return Matrix.kept(n);
    }

    public DataHandler echoData(DataHandler data) throws AxisFault {
        format();
        return data;
    }

    public DataHandler getData(int n) throws AxisFault {
        format();
        return new DataHandler(new Bytes(Matrix.bytes(Matrix.kept(n))));
    }

    /** Axis answers as MIME unless it is told otherwise. */
    private static void format() throws AxisFault {
        MessageContext context = MessageContext.getCurrentContext();
        boolean dime = "dime".equals(context.getTargetService());
        context.getResponseMessage().getAttachmentsImpl()
            .setSendType(dime ? Attachments.SEND_TYPE_DIME : Attachments.SEND_TYPE_MIME);
    }
}
